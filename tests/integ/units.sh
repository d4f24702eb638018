#!/bin/sh
# Checks that systemd reads the unit files without a complaint, once their programs are where they
# say; they leave little open; each runs as a user of its own that systemd-sysusers makes, both with
# the group hspmd.
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
    grep -qx "User=$unit" "$src/systemd/$unit.service" && grep -q "^$unit:" "$tmp/root/etc/passwd" || {
        echo "$unit.service: User= is not $unit, or systemd-sysusers makes no such user:"
        cat "$tmp/out"
        rc=1
    }
    groups=$(sed -n 's/^\(Supplementary\|\)Groups\{0,1\}=//p' "$src/systemd/$unit.service")
    echo "$groups" | grep -qx hspmd || {
        echo "$unit.service: the group hspmd is not among its groups:" $groups
        rc=1
    }
    for g in $groups; do
        grep -q "^$g:" "$tmp/root/etc/group" || {
            echo "$unit.service: systemd-sysusers makes no group $g:"
            cat "$tmp/out"
            rc=1
        }
    done
done
exit $rc
