# Whole programs against each other, on loopback.
TESTS += tests/integ/agent.py
