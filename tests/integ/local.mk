# Whole programs against each other, on loopback.
TESTS += tests/integ/abuse.py tests/integ/agent.py tests/integ/ctl.py tests/integ/data.py tests/integ/elastic.py tests/integ/join.py tests/integ/keeper.py tests/integ/manual.py tests/integ/reload.py tests/integ/resume.py tests/integ/service.py tests/integ/slow.py tests/integ/tls.py tests/integ/train.py tests/integ/units.sh tests/integ/watch.py
