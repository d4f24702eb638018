# Tests the computations of claims, without their measurements.
TESTS += tests/unit/claims/firstlight.py tests/unit/claims/gpuclaims.py
EXTRA_DIST += tests/unit/claims/firstlight.py tests/unit/claims/gpuclaims.py
