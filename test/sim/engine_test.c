// SPDX-License-Identifier: Apache-2.0

#include "sim/engine.h"

#include "test.h"
