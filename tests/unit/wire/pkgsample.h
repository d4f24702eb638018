/* A package of an epoch with something of everything but a gather table; all it points to lives for ever. */
#ifndef HSP_PKGSAMPLE_H
#define HSP_PKGSAMPLE_H
#include "proto/wire/msgblob.h"

struct hsp_package pkg_sample(void);

#endif
