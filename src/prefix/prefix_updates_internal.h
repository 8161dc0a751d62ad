// SPDX-License-Identifier: Apache-2.0
//
// prefix_updates_internal.h -- the role of writer by itself, for tests in which updates wait.
#pragma once

#include "prefix/prefix_updates.h"

// False: another thread has it.
bool prefix_updates_take_role(struct prefix_updates *updates);

// Applies updates that came meanwhile.
void prefix_updates_give_role(struct prefix_updates *updates);
