// SPDX-License-Identifier: Apache-2.0

#include "config/option/knobs.h"

#include "config/config.h"

struct policy_knobs config_knobs(const struct config *config)
{
    return (struct policy_knobs){
        .load_bound_percent = config->load_bound_percent,
        .match_threshold = (float)config->tuning.match_percent / 100,
        .balance_absolute = config->tuning.balance_absolute,
        .balance_relative = (float)config->tuning.balance_percent / 100,
        .prefill_scale = (float)config->tuning.prefill_scale,
        .temperature = (float)config->tuning.temperature_percent / 100,
    };
}
