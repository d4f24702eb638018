#!/bin/sh
# systemd reads the unit files without a complaint, once their programs are where they say.
set -u
src=${HSPMD_SRC:-.}
command -v systemd-analyze >/dev/null || {
    echo "systemd-analyze is not here"
    exit 77
}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hspmd-units-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
printf '#!/bin/sh\n' >"$tmp/program"
chmod 755 "$tmp/program"
rc=0
for unit in hspmdd hspmd-worker; do
    # Not installed here: copies that name a program that is there, and documentation likewise.
    sed -e "s|^ExecStart=/usr/sbin/$unit |ExecStart=$tmp/program |" "$src/systemd/$unit.service" \
        >"$tmp/$unit.service"
    grep -q "^ExecStart=$tmp/program --config /etc/hspmd/" "$tmp/$unit.service" || {
        echo "$unit: ExecStart is not /usr/sbin/$unit --config /etc/hspmd/..."
        rc=1
    }
    if ! systemd-analyze verify --man=no "$tmp/$unit.service" >"$tmp/out" 2>&1 || [ -s "$tmp/out" ]; then
        echo "$unit.service:"
        cat "$tmp/out"
        rc=1
    fi
done
exit $rc
