/* @@SENTENCE@@ options: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_OPTIONS_H
#define HSP_OPTIONS_H
#include "daemon/ctl/command.h"

/* Option parsing (options.c): fills @ctl from argv[first..argc) for @c, global options included.
 * HSP_EINVAL with a message for the user. */
enum hsp_status hsp_options_parse(struct hsp_ctl *ctl, const struct hsp_command *c, int argc,
                                  const char *const *argv, struct hsp_err *err);
/* The first of the options that @words begin with which is no global one; NULL: none. */
const char *hsp_options_unknown(int n, const char *const *words);
/* Index in argv of the first word that is no global option (argc: none). */
int hsp_options_first_word(int argc, const char *const *argv);
void hsp_options_print(FILE *out, const struct hsp_option *options);

#endif
