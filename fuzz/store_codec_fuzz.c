#include "fuzz.h"
int LLVMFuzzerTestOneInput(const uint8_t *b, size_t s)
{
    (void)b;
    (void)s;
    return 0;
}
