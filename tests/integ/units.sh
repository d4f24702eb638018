#!/bin/sh
# systemd reads the unit files without a complaint, once their programs are where they say; what they leave open is
# little; the user they run as is one that systemd-sysusers makes.
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

# exposure UNIT LIMIT: tenths
exposure() {
    text=$(systemd-analyze security --offline=true --no-pager "$src/systemd/$1.service" 2>&1)
    tenths=$(printf '%s\n' "$text" | sed -n 's/.*exposure level for .*: \([0-9]*\)\.\([0-9]\) .*/\1\2/p')
    if [ -z "$tenths" ] || [ "$tenths" -gt "$2" ]; then
        echo "$1.service: exposure ${tenths:-unknown}, at most $2 tenths"
        printf '%s\n' "$text" | grep -v '^.[^ ]* *✓' | tail -n 30
        rc=1
    fi
}
exposure hspmdd 20
exposure hspmd-worker 40

mkdir -p "$tmp/root/etc" "$tmp/root/usr/lib/sysusers.d"
cp "$src/systemd/hspmd.conf" "$tmp/root/usr/lib/sysusers.d/"
systemd-sysusers --root="$tmp/root" hspmd.conf >"$tmp/out" 2>&1
for unit in hspmdd hspmd-worker; do
    user=$(sed -n 's/^User=//p' "$src/systemd/$unit.service")
    if ! grep -q "^$user:" "$tmp/root/etc/passwd" || ! grep -q "^$user:" "$tmp/root/etc/group"; then
        echo "$unit.service: systemd-sysusers makes no user $user:"
        cat "$tmp/out"
        rc=1
    fi
done
exit $rc
