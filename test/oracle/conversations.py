"""Conversations for the comparison of chat templates, our own.

Each has the variables of a template: messages, and further members of a request.  `variables`
completes one as transformers does: missing tools and documents are None.
"""


def user(content, **more):
    return {"role": "user", "content": content, **more}


def system(content, **more):
    return {"role": "system", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content, **more):
    return {"role": "tool", "content": content, **more}


def call(name, arguments, number="call00001"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def part(text):
    return {"type": "text", "text": text}


WEATHER = {"type": "function", "function": {
    "name": "current_weather", "description": "The weather at a place, now.",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "City & country, e.g. \"Oslo, Norway\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}},
        "required": ["place"]}}}
# Names that are also methods of a dict, every JSON type, nesting, numbers that print in odd ways.
AWKWARD = {"type": "function", "function": {
    "name": "store_items", "description": "Stores items; it's <b>not</b> undone.\nÜber 2 lines.",
    "parameters": {"type": "object", "properties": {
        "items": {"type": "array", "items": {"type": "object", "properties": {
            "keys": {"type": "integer", "minimum": -5, "maximum": 1e16},
            "values": {"type": ["number", "null"], "multipleOf": 0.1}}}},
        "nested": {"type": "object", "description": "", "properties": {"get": {"type": "boolean"}},
                   "required": ["get"], "additionalProperties": False},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}], "nullable": True},
        "either": {"$ref": "#/$defs/x"}},
        "required": ["items", "any"], "$defs": {"x": {"const": None}}},
    "return": {"type": "object", "description": "what was stored"}, "strict": True}}
BARE = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {
    "type": "object", "properties": {}}}}
NO_PARAMETERS = {"type": "function", "function": {"name": "ping", "description": None, "parameters": None}}
UNWRAPPED = {"name": "flat", "description": "Not inside of a function member.", "parameters": {
    "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}
TOOLS = [WEATHER, AWKWARD, BARE]

CONVERSATIONS = {
    "one_turn": {"messages": [user("Hello!")]},
    "system_and_user": {"messages": [system("You are brief."), user("Hi")]},
    "three_turns": {"messages": [user("One?"), assistant("Two."), user("Three?"), assistant("Four."), user("Five?")]},
    "system_and_three_turns": {"messages": [
        system("Be kind."), user("One?"), assistant("Two."), user("Three?"), assistant("Four."), user("Five?")]},
    "ends_with_assistant": {"messages": [user("Finish: the sky is"), assistant("blue, and")]},
    "no_messages": {"messages": []},
    "empty_content": {"messages": [user("")]},
    "empty_everywhere": {"messages": [system(""), user(""), assistant(""), user("")]},
    "blanks": {"messages": [system("  \n "), user(" leading"), assistant("trailing \n\n"), user("\t\ttabs\r\n ")]},
    "none_content": {"messages": [user("Go"), assistant(None), user("On")]},
    "missing_content": {"messages": [user("Go"), {"role": "assistant"}, user("On")]},
    "system_only": {"messages": [system("Alone.")]},
    "assistant_first": {"messages": [assistant("I begin."), user("Do you?")]},
    "two_users": {"messages": [user("First."), user("Second.")]},
    "two_systems": {"messages": [system("One."), system("Two."), user("Which?")]},
    "late_system": {"messages": [user("Hi"), assistant("Hi"), system("Now be rude."), user("Hm?")]},
    "developer": {"messages": [{"role": "developer", "content": "Short answers."}, user("Why?")]},
    "unknown_role": {"messages": [{"role": "narrator", "content": "Meanwhile…"}, user("What?")]},
    "names": {"messages": [user("It's me", name="ann"), assistant("Hi Ann", name="bot"), user("Bye", name="ann")]},
    "unicode": {"messages": [system("Γειά 👩‍💻"), user("ßẞ ĳ ﬁ 日本語 \u200b\u00a0x\u2028y e\u0301 𝒳"), assistant("עברית и русский"),
                             user("\ufeffend\u0085")]},
    "quotes_and_markup": {"messages": [user("'single' \"double\" `back` <b>&amp;</b> {{ x }} {% if %} {# no #} \\n \\")]},
    "control_tokens": {"messages": [user("<|im_end|>\n<|im_start|>system\n<|eot_id|></s>[INST]<bos><start_of_turn>")]},
    "long": {"messages": [system("word " * 200), user("x" * 3000), assistant("line\n" * 100), user("end")]},
    "many_turns": {"messages": [message for number in range(20) for message in (
        user(f"Question {number}"), assistant(f"Answer {number}"))] + [user("Last")]},
    "parts": {"messages": [user([part("Hello"), part(" world")])]},
    "parts_everywhere": {"messages": [system([part("Be kind.")]), user([part("One"), part("Two")]), assistant([part("Three")]),
                                      user([part("")])]},
    "parts_empty": {"messages": [user([]), assistant([]), user([part("x")])]},
    "image": {"messages": [user([{"type": "image"}, part("What is this?")])]},
    "image_url": {"messages": [user([part("Look:"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])]},
    "audio_and_video": {"messages": [user([{"type": "audio", "audio": "a.wav"}, {"type": "video", "video": "v.mp4"}, part("Hm?")])]},
    "tools": {"messages": [user("Weather in Oslo?")], "tools": [WEATHER]},
    "tools_and_system": {"messages": [system("Use tools."), user("Weather in Oslo?")], "tools": TOOLS},
    "tools_odd": {"messages": [user("Ping.")], "tools": [NO_PARAMETERS, BARE]},
    "tools_unwrapped": {"messages": [user("x?")], "tools": [UNWRAPPED]},
    "tools_empty": {"messages": [user("No tools then.")], "tools": []},
    "tool_call": {"messages": [
        user("Weather in Oslo?"), assistant("", tool_calls=[call("current_weather", {"place": "Oslo, Norway"})]),
        tool('{"celsius": -3.5}', name="current_weather", tool_call_id="call00001")], "tools": TOOLS},
    "tool_call_none_content": {"messages": [
        system("Use tools."), user("Weather?"), assistant(None, tool_calls=[call("current_weather", {"place": "Bodø", "unit": "celsius"})]),
        tool("cold", name="current_weather", tool_call_id="call00001"), assistant("It is cold."), user("Thanks")], "tools": TOOLS},
    "tool_call_text": {"messages": [
        user("Weather?"), assistant("Let me look.", tool_calls=[call("current_weather", {})]),
        tool("", name="current_weather", tool_call_id="call00001"), assistant("No idea.")], "tools": [WEATHER]},
    "tool_calls_parallel": {"messages": [
        user("Both?"), assistant("", tool_calls=[
            call("current_weather", {"place": "Oslo"}, "aaaaaaaa1"), call("store_items", {"items": [{"keys": 1, "values": 0.5}], "any": None, "nested": {"get": True}}, "aaaaaaaa2")]),
        tool("1°", name="current_weather", tool_call_id="aaaaaaaa1"), tool("[1, 2]", name="store_items", tool_call_id="aaaaaaaa2"),
        assistant("Done."), user("And now?")], "tools": TOOLS},
    "tool_calls_twice": {"messages": [
        user("a"), assistant("", tool_calls=[call("now", {}, "bbbbbbbb1")]), tool("12:00", name="now", tool_call_id="bbbbbbbb1"),
        assistant("Again.", tool_calls=[call("now", {}, "bbbbbbbb2")]), tool("12:01", name="now", tool_call_id="bbbbbbbb2"),
        assistant("A minute."), user("b"), assistant("", tool_calls=[call("now", {"z": "ü", "a": [1, 2.0, 1e-7, True, None, "\"q\"\n"]}, "bbbbbbbb3")]),
        tool({"time": "12:02", "zone": None}, name="now", tool_call_id="bbbbbbbb3")], "tools": [BARE]},
    "tool_call_string_arguments": {"messages": [
        user("Weather?"), assistant("", tool_calls=[call("current_weather", '{"place": "Oslo"}')]),
        tool("ok", name="current_weather", tool_call_id="call00001")], "tools": [WEATHER]},
    "tool_call_without_tools": {"messages": [
        user("Weather?"), assistant("", tool_calls=[call("current_weather", {"place": "Oslo"})]), tool("ok", tool_call_id="call00001"),
        user("So?")]},
    "tool_call_flat": {"messages": [
        user("x?"), assistant("", tool_calls=[{"name": "flat", "arguments": {"x": 1}}]), tool("2", name="flat")], "tools": [UNWRAPPED]},
    "tool_calls_none": {"messages": [user("x?"), assistant("y", tool_calls=None), user("z?")]},
    "tool_calls_empty": {"messages": [user("x?"), assistant("y", tool_calls=[]), user("z?")]},
    "tool_parts": {"messages": [
        user("Weather?"), assistant("", tool_calls=[call("current_weather", {"place": "Oslo"})]),
        tool([part("cold"), part("wet")], name="current_weather", tool_call_id="call00001")], "tools": [WEATHER]},
    "tool_first": {"messages": [tool("unasked", name="now", tool_call_id="call00001"), user("?")], "tools": [BARE]},
    "ipython_role": {"messages": [user("Run."), {"role": "ipython", "content": {"output": 4}}, user("?")]},
    "reasoning": {"messages": [
        user("2+2?"), assistant("4", reasoning_content="Two and two.\nFour."), user("Sure?"), assistant("Yes", reasoning_content=""), user("Why?")]},
    "reasoning_names": {"messages": [
        user("2+2?"), assistant("4", thinking="Two and two."), user("Sure?"), assistant("Yes", reasoning="It is."), user("Why?")]},
    "reasoning_in_content": {"messages": [
        user("2+2?"), assistant("<think>\nTwo and two.\n</think>\n\n4"), user("Sure?"), assistant("<think></think>Yes"), user("</think> why?")]},
    "reasoning_and_tools": {"messages": [
        system("Think."), user("Weather?"), assistant("", reasoning_content="I need a tool.", tool_calls=[call("current_weather", {"place": "Oslo"})]),
        tool("cold", name="current_weather", tool_call_id="call00001"), assistant("Cold.", reasoning_content="It said so."), user("Thanks")], "tools": TOOLS},
    "thinking_on": {"messages": [user("2+2?")], "enable_thinking": True},
    "thinking_off": {"messages": [system("Short."), user("2+2?"), assistant("4"), user("3+3?")], "enable_thinking": False},
    "thinking_other": {"messages": [user("2+2?")], "thinking": True, "reasoning_effort": "high", "preserve_thinking": True},
    "effort_low": {"messages": [system("x"), user("2+2?")], "reasoning_effort": "low", "builtin_tools": ["browser", "python"]},
    "model_identity": {"messages": [user("Who?")], "model_identity": "You are nobody.", "date_string": "1 Feb 2025", "xml_tools": TOOLS,
                       "tools_in_user_message": False, "custom_tools": [WEATHER], "builtin_tools": ["code_interpreter"]},
    "documents": {"messages": [user("What do they say?")], "documents": [
        {"title": "First", "text": "It's one.", "doc_id": 1}, {"title": "Zweites", "text": "Über \"zwei\"", "snippets": ["a", "b"]}]},
    "documents_and_tools": {"messages": [system("Cite."), user("?")], "documents": [{"title": "T", "text": "x", "content": "y"}], "tools": TOOLS,
                            "citation_mode": "fast", "safety_mode": "STRICT"},
    "numbers": {"messages": [user(42), assistant(1.5), user(True)]},
    "content_object": {"messages": [user({"question": "nested?", "n": [1, 2]}), assistant({"answer": None}), user("ok")]},
    "extra_members": {"messages": [user("Hi", weight=1, prefix=True, tokens=[1]), assistant("Yo", prefix=False, recipient="all", channel="final",
                                                                                               content_type="text"), user("?")]},
    "only_roles": {"messages": [{"role": "user"}, {"role": "assistant"}]},
    "no_role": {"messages": [{"content": "Who am I?"}]},
}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
# Conversations that see no tokens: templates then meet what is undefined.
WITHOUT_TOKENS = ("one_turn", "tools_and_system")


def variables():
    """Name and variables of each conversation, with and without a generation prompt, and with
    tools.
    """
    for name, conversation in CONVERSATIONS.items():
        for prompt in (True, False):
            yield f"{name}{'' if prompt else ' without prompt'}", {
                "tools": None, "documents": None, **conversation, "add_generation_prompt": prompt, **TOKENS}
        if "tools" not in conversation:  # some templates are for tools only
            yield f"{name} with tools", {  # in the plainest form
                "documents": [], **conversation, "tools": [WEATHER], "functions": "[]", "datetime": "Saturday",
                "add_generation_prompt": True, **TOKENS}
    for name in WITHOUT_TOKENS:
        yield f"{name} without tokens", {"tools": None, "documents": None, **CONVERSATIONS[name],
                                         "add_generation_prompt": True}
