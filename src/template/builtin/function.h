// SPDX-License-Identifier: Apache-2.0
//
// function.h -- the functions of every template: namespace, range, dict and so on.
#pragma once

#include "template/value/value.h"

// NULL: the name is unknown.
const struct value_callable *function_find(struct slice name);
