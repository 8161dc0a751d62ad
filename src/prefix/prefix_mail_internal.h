// SPDX-License-Identifier: Apache-2.0
//
// prefix_mail_internal.h -- the role of writer by itself, for tests in which letters have to wait.
#pragma once

#include "prefix/prefix_mail.h"

// False: another thread has it.
bool prefix_mail_take_role(struct prefix_mail *mail);

// Delivers letters that came meanwhile.
void prefix_mail_give_role(struct prefix_mail *mail);
