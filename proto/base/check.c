#include "proto/base/check.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static hsp_assert_hook installed_hook;

void hsp_assert_set_hook(hsp_assert_hook hook)
{
    installed_hook = hook;
}

_Noreturn void hsp_assert_fail(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "assertion failed: %s (%s:%d)\n", expr, file, line); /* we are dying */
    hsp_assert_hook hook = installed_hook;
    installed_hook = NULL; /* a hook that fails an assertion must not recurse */
    if (hook != NULL) {
        hook(expr, file, line);
    }
    abort();
}
