/* Strategies in the artifact's forms that tests and the fuzz target share. */
#ifndef HSP_STRATEGYCASES_H
#define HSP_STRATEGYCASES_H

/* Two pipelines: TP 2 on devices 4, 5 then 6, 7; one device 9 for all layers. */
static const char strategy_expanded[] =
    "{\"zero\": true, \"devices\": [4, 5, 6, 7, 9], \"input\": {\"split\": {\"0\": [2, 2]}, "
    "\"dup\": [2, 1], \"device_group_union\": [[4, 5], [9]], \"type\": \"placeholder\"}, "
    "\"label\": {\"split\": {\"0\": [2, 2]}, \"dup\": [2, 1], \"device_group_union\": [[6, "
    "7], [9]], \"type\": \"placeholder\"}, \"llama\": {\"wte\": {\"split\": {\"0\": [2, 1]}, "
    "\"dup\": [2, 2], \"device_group_union\": [[4, 5], [9]], \"type\": \"variable\"}, "
    "\"blocks\": {\"blocks0\": {\"range\": [0, 1], \"recompute\": [true, false], "
    "\"rmsnorm1\": {\"split\": {\"0\": [2, 1]}, \"dup\": [2, 2], \"device_group_union\": "
    "[[4, 5], [9]], \"type\": \"variable\"}, \"attn\": {\"qkv\": {\"split\": {\"1\": [2, "
    "1]}, \"dup\": [2, 2], \"device_group_union\": [[4, 5], [9]], \"type\": \"variable\"}, "
    "\"dense\": {\"split\": {\"0\": [2, 1]}, \"dup\": [2, 2], \"device_group_union\": [[4, "
    "5], [9]], \"type\": \"variable\"}}}, \"blocks1\": {\"range\": [2], \"recompute\": "
    "false, \"cpu_offload\": false, \"rmsnorm1\": {\"split\": {\"0\": [2, 1]}, \"dup\": [2, "
    "2], \"device_group_union\": [[6, 7], [9]], \"type\": \"variable\"}, \"attn\": {\"qkv\": "
    "{\"split\": {\"1\": [2, 1]}, \"dup\": [2, 2], \"device_group_union\": [[6, 7], [9]], "
    "\"type\": \"variable\"}, \"dense\": {\"split\": {\"0\": [2, 1]}, \"dup\": [2, 2], "
    "\"device_group_union\": [[6, 7], [9]], \"type\": \"variable\"}}}}, \"rmsnorm_final\": "
    "{\"split\": {\"0\": [2, 1]}, \"dup\": [2, 2], \"device_group_union\": [[6, 7], [9]], "
    "\"type\": \"variable\"}}, \"lm_head\": {\"split\": {\"1\": [2, 1]}, \"dup\": [2, 2], "
    "\"device_group_union\": [[6, 7], [9]], \"type\": \"variable\"}}";

/* Two pipelines of TP 2, of which one stage has one device. */
static const char strategy_packed[] =
    "{\"NUM_GPUS\": 5, \"DP\": 2, \"CP_LIST\": [1, 1], \"TP\": 2, \"LAYERS_NUM_LIST\": [[2, "
    "1], [3]], \"MICRO_BATCH_NUM_LIST\": [3, 2], \"UNUSED_RANK\": [3], \"SEQ_LEN_LIST\": "
    "[4096, 4096], \"RANK_TO_DEVICE_MAPPING\": {\"0\": 8, \"1\": 1, \"2\": 2, \"4\": 3, "
    "\"5\": 5}}";

/* As the artifact's generator writes a gpt: positions and norms whole, blocks with maps of nothing. A
 * pipeline of TP 2, and two of TP 1 that are a ring. */
static const char strategy_rings[] =
    "{\"zero\": false, \"devices\": [0, 1, 2, 3], \"recompute_granularity\": null, "
    "\"CP_LIST\": [1, 2], \"SEQ_LEN_LIST\": [1024, 384, 640], \"MICRO_BATCH_NUM_LIST\": [3, 5], "
    "\"gpt\": {\"wpe\": {\"split\": {}, \"dup\": [6, 3, 3], \"device_group_union\": [[0, 1], "
    "[2], [3]], \"type\": \"variable\"}, \"blocks\": {\"blocks0\": {\"range\": [0], "
    "\"recompute\": [false, true, true], \"layernorm1\": {\"split\": {\"0\": [2, 1, 1]}, "
    "\"dup\": [6, 3, 3], \"device_group_union\": [[0, 1], [2], [3]], \"type\": \"variable\"}, "
    "\"mlp\": {\"dense_h_to_4h\": {\"split\": {\"1\": [2, 1, 1]}, \"dup\": [3, 3, 3], "
    "\"device_group_union\": [[0, 1], [2], [3]], \"type\": \"variable\"}, \"activation_func\": "
    "{}}}, \"blocks1\": {\"range\": [1], \"recompute\": [false, true, true], \"attn\": {\"qkv\": "
    "{\"split\": {\"1\": [2, 1, 1]}, \"dup\": [3, 3, 3], \"device_group_union\": [[0, 1], [4], "
    "[5]], \"type\": \"variable\"}}}}}}";

/* Three pipelines, of which the last two are a ring of uneven ranges; a stage of it lacks a device. */
static const char strategy_packed_rings[] =
    "{\"NUM_GPUS\": 11, \"DP\": 2, \"CP_LIST\": [1, 2], \"TP\": 2, \"LAYERS_NUM_LIST\": [[3], "
    "[2, 1], [2, 1]], \"MICRO_BATCH_NUM_LIST\": [3, 2], \"UNUSED_RANK\": [7], \"SEQ_LEN_LIST\": "
    "[1024, 256, 768]}";

#endif
