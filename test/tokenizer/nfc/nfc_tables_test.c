// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/nfc/nfc_internal.h"

#include <stdbool.h>

// Of Unicode 9.0: 814 characters have a class; four of those decompose, and what they were is not
// kept.
TEST(the_tables_are_those_of_unicode_9)
{
    uint32_t classes = 0;
    uint32_t decompositions = 0;
    uint32_t changing = 0;
    for (uint32_t point = 0; point < 0x110000; point++) {
        uint16_t value = nfc_value(point);
        bool decomposes = (value & NFC_DECOMPOSES) != 0;
        classes += !decomposes && (value & NFC_CLASS_MASK) != 0;
        decompositions += decomposes;
        changing += decomposes && (value & NFC_CHANGES) != 0;
    }
    CHECK_EQ(classes, 814 - 4);
    CHECK_EQ(decompositions, 2060);
    CHECK_EQ(decompositions - changing, nfc_pair_count);
}

TEST(pairs_rise_and_their_seconds_are_marked)
{
    for (uint32_t i = 0; i < nfc_pair_count; i++) {
        CHECK(i == 0 || nfc_pairs[i - 1] < nfc_pairs[i]);
        CHECK((nfc_value((uint32_t)nfc_pairs[i]) & NFC_MAY_COMPOSE) != 0);
        uint16_t whole = nfc_value(nfc_wholes[i]);
        CHECK((whole & NFC_DECOMPOSES) != 0 && (whole & NFC_CHANGES) == 0);
        unsigned last = whole >> NFC_LENGTH_SHIFT & NFC_LENGTH_MASK;
        CHECK_EQ(nfc_points[(whole & NFC_POINT_MASK) + last], (uint32_t)nfc_pairs[i]);
    }
}

TEST(decompositions_are_complete)
{
    uint32_t incomplete = 0;
    for (uint32_t point = 0; point < nfc_end; point++) {
        uint16_t value = nfc_value(point);
        unsigned last = value >> NFC_LENGTH_SHIFT & NFC_LENGTH_MASK;
        for (unsigned i = 0; (value & NFC_DECOMPOSES) != 0 && i <= last; i++) {
            uint32_t part = nfc_points[(value & NFC_POINT_MASK) + i];
            incomplete += (nfc_value(part) & NFC_DECOMPOSES) != 0;
        }
    }
    CHECK_EQ(incomplete, 0);
}

TEST(leads_are_clean_when_their_characters_are)
{
    CHECK(nfc_clean_leads['a'] && nfc_clean_leads[0xc3] && nfc_clean_leads[0xcb]);
    CHECK(!nfc_clean_leads[0xcc] && !nfc_clean_leads[0xf5] && !nfc_clean_leads[0xff]);
    CHECK(nfc_clean_leads[0xd0] && nfc_clean_leads[0xe5]); // Cyrillic, Chinese
    CHECK(!nfc_clean_leads[0xe1] && !nfc_clean_leads[0xe0]);
}
