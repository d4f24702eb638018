# What the claims compute, without what they measure.
TESTS += tests/unit/claims/gpuclaims.py
EXTRA_DIST += tests/unit/claims/gpuclaims.py
