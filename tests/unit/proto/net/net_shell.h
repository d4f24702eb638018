/* Makes a shell with connections on a loop of its own, for tests. */
#ifndef HSP_NET_SHELL_H
#define HSP_NET_SHELL_H
#include "proto/net/net.h"
#include "tests/lib/testlib.h"

struct shell {
    uv_loop_t loop;
    uv_timer_t guard;
    struct hsp_net *net;
    bool echo, done;
    unsigned n_open, n_frames, n_close, n_refuse;
    enum hsp_net_role claimed; /* of the last one that was refused */
    uint32_t conn;             /* last opened or closed */
    uint32_t opened;
    enum hsp_net_role role;
    uid_t uid;
    struct hsp_err why; /* of the last close or refusal */
    size_t last_body, last_blob;
    char text[64];
    uint16_t type;
    uint32_t last_listener;
    char port[200]; /* name of the listener */
};

/* Runs the loop until a counter has a value. */
#define RUN_UNTIL(s, cond)                   \
    do {                                     \
        while (!(cond)) {                    \
            uv_run(&(s)->loop, UV_RUN_ONCE); \
        }                                    \
    } while (0)

void run_ms(struct shell *s, uint64_t ms);
void shell_open(struct shell *s, const struct hsp_net_config *cfg);
void shell_listen(struct shell *s, const char *address);
void shell_close(struct shell *s);

/* Defaults but for a short flush; the second with both keys. */
struct hsp_net_config config(void);
struct hsp_net_config config_keys(void);

#endif
