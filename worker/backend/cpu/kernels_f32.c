/* Compiles the kernels of the .inc files for fp32. */
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "proto/base/size.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/backend/cpu/cpu_scratch.h"
#include "worker/backend/cpu/real_f32.h"

#include "worker/backend/cpu/kmath.inc"
#include "worker/backend/cpu/linear.inc"
#include "worker/backend/cpu/map.inc"
#include "worker/backend/cpu/update.inc"
#include "worker/backend/cpu/reduce.inc"
#include "worker/backend/cpu/norm.inc"
#include "worker/backend/cpu/llama.inc"
#include "worker/backend/cpu/dropout.inc"
#include "worker/backend/cpu/embed.inc"
#include "worker/backend/cpu/xent.inc"
#include "worker/backend/cpu/xent_part.inc"
#include "worker/backend/cpu/attention.inc"
#include "worker/backend/cpu/cpu_scratch.h"
#include "worker/backend/cpu/table.inc"
