// SPDX-License-Identifier: Apache-2.0
//
// cross_check.h -- do the values fit together?  The last step from a draft to a configuration.
//
// Each value alone is sound by now.  Here are the rules that look at two of them: files that go
// together, names that must exist or must not repeat, limits that contain one another.
#pragma once

#include "base/status.h"

struct config_draft;

// Checks all and fills config->backends and config->pools from the draft.
enum status config_cross_check(struct config_draft *draft);
