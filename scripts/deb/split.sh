#!/bin/sh
# Shares the files of `make install` among the packages, by name, so that a new file is in one of
# them without being listed: debian/PACKAGE.install. Run in the source tree by debian/rules.
set -eu
: >debian/not-installed
for p in hspmdd hspmd-worker hspmdctl; do : >"debian/$p.install"; done
(cd debian/tmp && find . ! -type d | LC_ALL=C sort) | sed 's|^\./||' | while read -r f; do
    case "$f" in
    usr/share/doc/hspmd/COPYING | usr/lib/sysusers.d/*) to= ;;
    usr/lib/hspmd/* | usr/lib/*/hspmd/* | */hspmd-worker | */hspmd-worker.*) to=hspmd-worker ;;
    */hspmdd | */hspmdd.*) to=hspmdd ;;
    *) to=hspmdctl ;;
    esac
    if [ -n "$to" ]; then
        echo "$f" >>"debian/$to.install"
    else
        echo "$f" >>debian/not-installed # the licence is in copyright, the user in PACKAGE.sysusers
    fi
done
# The shipped examples, with every line a comment, are the configuration to begin with.
echo "conf/hspmdd.yaml etc/hspmd" >>debian/hspmdd.install
echo "conf/hspmd-worker.yaml etc/hspmd" >>debian/hspmd-worker.install
