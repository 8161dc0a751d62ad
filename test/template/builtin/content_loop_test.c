// SPDX-License-Identifier: Apache-2.0
//
// Whether a template loops over the content of messages, by what vLLM takes for that.

#include "template/template_fixture.h"

static bool loops(const char *source)
{
    struct template *template = NULL;
    struct template_error error;
    enum status status = template_compile(slice_str(source), &template, &error);
    ASSERT(status == STATUS_OK);
    bool answer = template_loops_over_content(template);
    template_destroy(&template);
    return answer;
}

#define MESSAGES(body) "{% for message in messages %}" body "{% endfor %}"

TEST(loops_over_the_content_of_a_message_are_found)
{
    CHECK(loops(MESSAGES("{% for c in message.content %}{% endfor %}")));
    CHECK(loops(MESSAGES("{% for c in message['content'] %}{% endfor %}")));
    CHECK(loops(MESSAGES("{% for c in message['content'] | list %}{% endfor %}")));
    CHECK(loops(MESSAGES("{% for c in message.content[1:] %}{% endfor %}")));
    CHECK(loops(MESSAGES("{% if message.content is string %}{% else %}"
                         "{% for c in message.content if c %}{% endfor %}{% endif %}")));
}

TEST(assignments_of_messages_are_followed)
{
    CHECK(loops("{% set a = messages[1:] %}{% set b = a | list %}{% for m in b %}"
                "{% for c in m.content %}{% endfor %}{% endfor %}"));
    CHECK(loops("{% for m in messages[1:] %}{% for c in m.content %}{% endfor %}{% endfor %}"));
    CHECK(!loops("{% set a = tools %}{% for m in a %}{% for c in m.content %}{% endfor %}"
                 "{% endfor %}"));
}

TEST(anything_called_content_counts)
{
    CHECK(loops("{% macro m(content) %}{% for c in content %}{% endfor %}{% endmacro %}"));
    CHECK(loops(MESSAGES("{% set content = message.content %}{% for c in content %}{% endfor %}")));
    CHECK(!loops(MESSAGES("{% set c = message.content %}{% for d in c %}{% endfor %}")));
    CHECK(!loops("{% for c in content | list %}{% endfor %}"));
}

TEST(other_loops_do_not_count)
{
    CHECK(!loops(""));
    CHECK(!loops(MESSAGES("{{ message.content }}")));
    CHECK(!loops(MESSAGES("{% for c in message.tool_calls %}{% endfor %}")));
    CHECK(!loops("{% for c in messages[0].content %}{% endfor %}"));
}

TEST(several_targets_end_the_search)
{
    CHECK(!loops("{% for a, b in messages %}{% for c in a.content %}{% endfor %}{% endfor %}"));
    CHECK(!loops(MESSAGES("{% for a, b in message.content %}{% endfor %}")));
    CHECK(!loops("{% set ns = namespace() %}{% set ns.m = messages %}" MESSAGES(
        "{% for c in message.content %}{% endfor %}")));
}
