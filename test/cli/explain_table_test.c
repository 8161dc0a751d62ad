// SPDX-License-Identifier: Apache-2.0

#include "cli/explain_table.h"

#include "base/slice.h"
#include "cli/explain_document.h"
#include "test.h"

#include <stdlib.h>

static char *page;

static const char *table_of(const char *text)
{
    struct explain_document document;
    size_t size;

    free(page);
    FILE *out = open_memstream(&page, &size);
    ASSERT(out != NULL);
    ASSERT(explain_document_read(slice_str(text), &document) == STATUS_OK);
    explain_table_write(&document, out);
    explain_document_free(&document);
    ASSERT(fclose(out) == 0);
    return page;
}

TEST(the_chosen_one_is_marked_and_columns_line_up)
{
    CHECK_STR(
        table_of("{\"summary\":\"It goes there.\",\"by_token_ids\":true,\"prompt_tokens\":978,"
                 "\"wait_ms\":10.25,\"prefill_ms\":4,\"backends\":["
                 "{\"url\":\"http://a:1\",\"matched_tokens\":0,\"host_tokens\":64,"
                 "\"predicted_ms\":29.94,\"cost\":null,\"events\":\"none\"},"
                 "{\"url\":\"http://b:22\",\"chosen\":true,\"matched_tokens\":960,"
                 "\"host_tokens\":0,\"predicted_ms\":14.25,\"cost\":6.2833,"
                 "\"events\":\"learning\"}]}"),
        "It goes there.\n"
        "The prompt has 978 tokens, counted. There it waits 10.2 ms, and takes 4.0 ms to "
        "compute.\n\n"
        "  backend      events    cached  host  first token   cost\n"
        "  http://a:1   none           0    64      29.9 ms      -\n"
        "> http://b:22  learning     960     0      14.2 ms  6.283\n"
        "\nNo response has reported cached tokens yet.\n");
}

TEST(columns_without_values_are_left_out)
{
    CHECK_STR(table_of("{\"summary\":\"s\",\"prompt_tokens\":5,\"backends\":[{\"url\":\"u\","
                       "\"matched_tokens\":0,\"cost\":null}]}"),
              "s\nThe prompt has about 5 tokens, guessed by its size.\n\n"
              "  backend  cached\n"
              "  u             0\n"
              "\nNo response has reported cached tokens yet.\n");
}

TEST(each_backend_has_its_record_of_predictions)
{
    CHECK(
        strstr(table_of("{\"backends\":[{\"url\":\"u\",\"truth\":{\"by_events\":null,\"believed\":{"
                        "\"all\":{\"count\":200,\"equal_share\":0.98,\"wrong_percent\":1.5,"
                        "\"p1\":-64,\"p50\":0,\"p99\":16},"
                        "\"recent\":{\"count\":10,\"equal_share\":1,\"p99\":0},"
                        "\"last\":{\"predicted\":960,\"actual\":944}}}}]}"),
               "\nCached tokens, predicted minus actual:\n"
               "  backend  by        samples   equal  off by   p1  p99  lately    equal  p99  "
               "predicted  actual\n"
               "  u        believed      200  98.00%   1.50%  -64  +16      10  100.00%    0  "
               "      960     944\n") != NULL);
}

TEST(a_decision_that_was_made_has_its_rivals_and_its_end)
{
    CHECK_STR(table_of("{\"why\":\"It went there.\",\"outcome\":\"ok\",\"status\":200,"
                       "\"prompt_tokens\":978,\"cached_tokens\":944,\"ttft_ms\":12.34,"
                       "\"total_ms\":99,\"backend\":{\"id\":1,\"url\":\"http://a:1\"},"
                       "\"expected_tokens\":960,\"queued_tokens\":7,\"predicted_ms\":4,"
                       "\"cost\":6.25,\"round_robin\":{\"backend\":{\"id\":2,"
                       "\"url\":\"http://b:2\"},\"cached_tokens\":16,\"ttft_ms\":40},"
                       "\"rivals\":[{\"id\":2,\"url\":\"http://b:2\",\"expected_tokens\":16,"
                       "\"queued_tokens\":0,\"predicted_ms\":30,\"cost\":null},"
                       "{\"id\":3,\"url\":null,\"expected_tokens\":0}]}"),
              "It went there.\n"
              "It ended as ok (200), with 944 of 978 prompt tokens cached, its first token after "
              "12.3 ms, and was over after 99.0 ms.\n"
              "Round-robin would have sent it to http://b:2, with 16 tokens cached and its first "
              "token after about 40.0 ms.\n\n"
              "  backend     cached  queued  first token  cost\n"
              "> http://a:1     960       7       4.0 ms  6.25\n"
              "  http://b:2      16       0      30.0 ms     -\n"
              "                   0       -            -     -\n");
}

TEST(a_decision_without_a_backend_has_no_table)
{
    CHECK_STR(table_of("{\"why\":\"Nobody.\",\"outcome\":\"refused\",\"status\":404,"
                       "\"backend\":null,\"rivals\":[]}"),
              "Nobody.\nIt ended as refused (404).\n");
    CHECK_STR(table_of("{\"why\":\"There.\",\"outcome\":\"running\",\"backend\":{\"id\":1,"
                       "\"url\":\"u\"},\"expected_tokens\":1,\"rivals\":[]}"),
              "There.\nIt is still running.\n\n  backend  cached\n> u             1\n");
}
