/* Writes scalars and trees as YAML that reads back equal.
 *
 * Purity: pure. */
#ifndef HSP_YAML_WRITE_H
#define HSP_YAML_WRITE_H
#include "proto/text/yaml.h"

/* The text as a JSON string. */
void hsp_yaml_put_json_str(struct hsp_buf *b, const char *text);
/* A scalar that reads back as the same text: plain when that is safe, else in double quotes. */
void hsp_yaml_put_str(struct hsp_buf *b, const char *text);
/* The shortest decimal that reads back as the same number; @v must be finite. */
void hsp_yaml_put_f64(struct hsp_buf *b, double v);
/* A byte count in the largest unit that divides it: 1GiB, 1536MiB, 100. */
void hsp_yaml_put_bytes(struct hsp_buf *b, uint64_t v);
/* Milliseconds in the largest unit that divides them: 3s, 1500ms, 2m. */
void hsp_yaml_put_ms(struct hsp_buf *b, uint64_t v);
/* The tree as flow text on one line; parsing it gives an equal tree. */
void hsp_yaml_put_flow(struct hsp_buf *b, const struct hsp_yaml *node);

#endif
