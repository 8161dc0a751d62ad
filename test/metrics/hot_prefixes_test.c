// SPDX-License-Identifier: Apache-2.0

#include "metrics/hot_prefixes.h"

#include "test.h"
