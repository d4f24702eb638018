# Whole programs against each other, on loopback.
TESTS += tests/integ/agent.py tests/integ/join.py tests/integ/train.py
