#include "daemon/ctl/command.h"

#include <string.h>

/* True when all words of @name stand at the front; *ret_used of them. */
static bool matches(const char *name, int n, const char *const *words, int *ret_used)
{
    int used = 0;
    while (used < n) {
        size_t len = strcspn(name, " ");
        if (strlen(words[used]) != len || memcmp(words[used], name, len) != 0) {
            return false;
        }
        used++;
        if (name[len] == '\0') {
            *ret_used = used;
            return true;
        }
        name += len + 1;
    }
    return false;
}

const struct hsp_command *hsp_command_find(const struct hsp_command *commands, int n,
                                           const char *const *words, int *ret_used)
{
    const struct hsp_command *best = NULL;
    *ret_used = 0;
    for (const struct hsp_command *c = commands; c->name != NULL; c++) {
        int used = 0;
        if (matches(c->name, n, words, &used) && used > *ret_used) {
            best = c;
            *ret_used = used;
        }
    }
    return best;
}
