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

#endif
