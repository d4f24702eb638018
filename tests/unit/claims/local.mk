# What the claims compute, without what they measure.
TESTS += tests/unit/claims/firstlight.py tests/unit/claims/gpuclaims.py
EXTRA_DIST += tests/unit/claims/firstlight.py tests/unit/claims/gpuclaims.py
