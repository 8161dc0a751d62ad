// SPDX-License-Identifier: Apache-2.0

#include "metrics/chronicle.h"

#include "test.h"
