/* Strategies in the artifact's forms that tests and the fuzz target share. */
#ifndef HSP_STRATEGYCASES_H
#define HSP_STRATEGYCASES_H

#define HSP_STRATEGY_TENSOR(split, dup, at)                                  \
    "{\"split\": {" split "}, \"dup\": " dup ", \"device_group_union\": " at \
    ", \"type\": \"variable\"}"
#define HSP_STRATEGY_BLOCK(range, more, at)                                                        \
    "{\"range\": " range                                                                           \
        more ", \"rmsnorm1\": " HSP_STRATEGY_TENSOR(                                               \
            "\"0\": [2, 1]", "[2, 2]",                                                             \
            at) ", \"attn\": {\"qkv\": " HSP_STRATEGY_TENSOR("\"1\": [2, 1]", "[2, 2]",            \
                                                             at) ", "                              \
                                                                 "\"dense\":"                      \
                                                                 " " HSP_STRATEGY_TENSOR("\"0\": " \
                                                                                         "[2, 1]", \
                                                                                         "[2, 2]", \
                                                                                         at) "}}"
#define HSP_STRATEGY_DATA(at)                                                   \
    "{\"split\": {\"0\": [2, 2]}, \"dup\": [2, 1], \"device_group_union\": " at \
    ", \"type\": \"placeholder\"}"

/* Two pipelines: TP 2 on devices 4, 5 then 6, 7; one device 9 for all layers. */
#define HSP_STRATEGY_EXPANDED                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
    "{\"zero\": true, \"devices\": [4, 5, 6, 7, 9], \"input\": " HSP_STRATEGY_DATA("[[4, 5], "                                                                                                                                                                                                                                                                                                                                                                                                                            \
                                                                                   "[9]]") ", "                                                                                                                                                                                                                                                                                                                                                                                                                           \
                                                                                           "\"lab"                                                                                                                                                                                                                                                                                                                                                                                                                        \
                                                                                           "el\":"                                                                                                                                                                                                                                                                                                                                                                                                                        \
                                                                                           " " HSP_STRATEGY_DATA("[[6, 7], [9]]") ", \"llama\": {\"wte\": " HSP_STRATEGY_TENSOR(                                                                                                                                                                                                                                                                                                                                          \
                                                                                               "\"0\": [2, 1]", "[2, 2]", "[[4, 5], [9]]") ", \"blocks\": {\"blocks0\": " HSP_STRATEGY_BLOCK("[0, 1]", ", \"recompute\": [true, false]", "[[4, 5], [9]]") ", \"blocks1\": " HSP_STRATEGY_BLOCK("[2]", ", \"recompute\": false, \"cpu_offload\": false", "[[6, 7], [9]]") "}, \"rmsnorm_final\": " HSP_STRATEGY_TENSOR("\"0\": [2, 1]", "[2, 2]", "[[6, 7], [9]]") "}, \"lm_head\": " HSP_STRATEGY_TENSOR("\"1\": [2, 1]", \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "[2, 2]",        \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "[[6, 7], [9]]") "}"

#define HSP_STRATEGY_PACKED                                                                       \
    "{\"NUM_GPUS\": 5, \"DP\": 2, \"CP_LIST\": [1, 1], \"TP\": 2, \"LAYERS_NUM_LIST\": [[2, 1], " \
    "[3]], "                                                                                      \
    "\"MICRO_BATCH_NUM_LIST\": [3, 2], \"UNUSED_RANK\": [3], \"SEQ_LEN_LIST\": [4096, 4096], "    \
    "\"RANK_TO_DEVICE_MAPPING\": {\"0\": 8, \"1\": 1, \"2\": 2, \"4\": 3, \"5\": 5}}"

#endif
