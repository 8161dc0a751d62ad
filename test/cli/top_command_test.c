// SPDX-License-Identifier: Apache-2.0

#include "test.h"

#include <stdbool.h>

TEST(x)
{
    CHECK(true);
}
