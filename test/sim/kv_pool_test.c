// SPDX-License-Identifier: Apache-2.0

#include "sim/kv_pool.h"

#include "test.h"
