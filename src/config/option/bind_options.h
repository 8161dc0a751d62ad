// SPDX-License-Identifier: Apache-2.0
//
// bind_options.h -- what the file and the command line say, into a draft, by the rows.
//
// Unknown and repeated keys and values of the wrong shape are refused where they stand; whether
// the values fit together is cross_check.h's concern.
#pragma once

#include "base/status.h"

struct config_draft;
struct config_node;
struct config_source;

// `root` is NULL for an empty file.  Keeps the texts of the nodes.
enum status config_bind_file(struct config_draft *draft, const struct config_node *root);

// After the file: what a flag sets replaces what the file said.  Copies the values.
enum status config_bind_flags(struct config_draft *draft, const struct config_source *source);
