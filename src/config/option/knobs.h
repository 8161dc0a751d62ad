// SPDX-License-Identifier: Apache-2.0
//
// knobs.h -- the numbers of the configuration that policies read, as they read them.
#pragma once

#include "policy/policy.h"

struct config;

struct policy_knobs config_knobs(const struct config *config);
