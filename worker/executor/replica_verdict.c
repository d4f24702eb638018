#include "worker/executor/replica_verdict.h"

bool hsp_replica_wrong(const struct hsp_replica_view *mine, const struct hsp_replica_view *other,
                       uint32_t n)
{
    bool differs = true, intact = true;
    for (uint32_t i = 0; i < n; i++) {
        differs = differs && other[i].hash != mine->hash;
        intact = intact && other[i].intact;
    }
    if (n == 0 || !differs) {
        return false;
    }
    if (n > 1 && other[0].hash == other[1].hash) {
        return true;
    }
    return !mine->intact || intact;
}
