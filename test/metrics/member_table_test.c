// SPDX-License-Identifier: Apache-2.0

#include "metrics/member_table.h"

#include "test.h"
