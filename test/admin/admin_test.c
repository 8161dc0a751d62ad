#include "test.h"
TEST(x)
{
    CHECK(1);
}
