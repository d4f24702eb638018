# Whole programs against each other, on loopback.
TESTS += tests/integ/abuse.py tests/integ/agent.py tests/integ/ctl.py tests/integ/cursor.py tests/integ/data.py tests/integ/elastic.py tests/integ/formats.py tests/integ/gathered.py tests/integ/gpu.py tests/integ/gpuhealth.py tests/integ/join.py tests/integ/keeper.py tests/integ/manual.py tests/integ/nccltls.py tests/integ/nodecheck.py tests/integ/onegpu.py tests/integ/ownjob.py tests/integ/pool.py tests/integ/relays.py tests/integ/reload.py tests/integ/resume.py tests/integ/service.py tests/integ/slow.py tests/integ/tls.py tests/integ/trace.py tests/integ/train.py tests/integ/units.sh tests/integ/watch.py
# The folder for a machine with a GPU; skipped without nvcc.
TESTS += tests/integ/gpubundle.py
