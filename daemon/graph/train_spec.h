/* Holds the training settings of a job file in the form that plans and programs need.
 *
 * Purity: pure.
 */
#ifndef HSP_TRAIN_SPEC_H
#define HSP_TRAIN_SPEC_H
#include "proto/program/program.h"

struct hsp_train_spec { /* train: and data: of the job file */
    struct hsp_train_bind hyper;
    struct hsp_data_bind data;
    double eps, weight_decay, momentum;
};

#endif
