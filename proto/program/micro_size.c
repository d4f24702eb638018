#include "proto/program/micro_size.h"

uint32_t hsp_micro_size(uint32_t n_seq, uint32_t n_micro, uint32_t micro)
{
    return n_micro == 0 ? 0 : n_seq / n_micro + (micro < n_seq % n_micro ? 1 : 0);
}
