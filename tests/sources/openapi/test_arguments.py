from typing import Any

from jackfield.sources.openapi.parameters import Location, Media
from tests.sources.openapi.scene import document, json_body, offered, operation, parameter, tools_of

OBJECT = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
}


def posted(body: Any, **more: Any) -> dict[str, Any]:
    made = document({"/x/{id}": {"post": operation("x", requestBody=body, **more)}})
    return tools_of(made, fields=False)["x"].input_schema


def test_parameters_of_every_place_and_the_fields_of_the_body_are_one_schema() -> None:
    parameters = [
        parameter("X-Trace", "header"),
        parameter("id", "path", required=True, schema={"type": "integer"}),
        parameter("limit", schema={"type": "integer", "maximum": 9}, description="How many"),
        parameter("theme", "cookie", required=True),
    ]
    assert posted(json_body(OBJECT), parameters=parameters) == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "limit": {"type": "integer", "maximum": 9, "description": "How many"},
            "X-Trace": {"type": "string"},
            "theme": {"type": "string"},
            "name": {"type": "string"},
            "size": {"type": "integer"},
        },
        "required": ["id", "theme", "name"],
        "additionalProperties": False,
    }


def test_an_operations_parameter_takes_the_place_of_its_paths_and_an_undeclared_place_is_a_text() -> None:
    paths = {
        "/x/{id}/{part}": {
            "parameters": [parameter("id", "path", schema={"type": "string"}), parameter("q")],
            "get": operation("x", parameters=[parameter("id", "path", schema={"type": "integer"})]),
        }
    }
    schema = tools_of(document(paths), fields=False)["x"].input_schema
    assert schema["properties"] == {"id": {"type": "integer"}, "q": {"type": "string"}, "part": {"type": "string"}}
    assert schema["required"] == ["id", "part"]


def test_names_that_clash_or_that_no_model_takes_are_given_others_and_go_where_they_belong() -> None:
    body = json_body({"type": "object", "properties": {"id": {"type": "string"}, "größe": {"type": "integer"}}})
    parameters = [parameter("id"), parameter("filter[name]"), parameter("$top")]
    made = document({"/x/{id}": {"post": operation("x", requestBody=body, parameters=parameters)}})
    places = offered(made).operations["x"].inputs.places

    assert [(place.argument, place.where, place.name) for place in places] == [
        ("id", Location.PATH, "id"),
        ("query_id", Location.QUERY, "id"),
        ("filter_name_", Location.QUERY, "filter[name]"),
        ("_top", Location.QUERY, "$top"),
        ("body_id", Location.FIELD, "id"),
        ("gr__e", Location.FIELD, "größe"),
    ]


def test_a_body_that_is_no_plain_object_is_one_argument() -> None:
    for schema in (
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [OBJECT, {"type": "string"}]},
        {"allOf": [OBJECT]},
        {**OBJECT, "additionalProperties": True},
        {**OBJECT, "additionalProperties": {"type": "string"}},
        {**OBJECT, "minProperties": 1},
        {"type": "object"},
        {},
    ):
        made = posted(json_body(schema))
        assert list(made["properties"]) == ["id", "body"]
        assert made["required"] == ["id", "body"]
        assert made["properties"]["body"] == schema


def test_an_optional_body_with_required_fields_is_one_optional_argument() -> None:
    made = posted(json_body(OBJECT, required=False))
    assert made["properties"]["body"] == OBJECT
    assert made["required"] == ["id"]


def test_json_is_preferred_to_a_form_and_a_form_is_taken() -> None:
    both = {
        "content": {
            "application/x-www-form-urlencoded": {"schema": OBJECT},
            "application/vnd.x+json": {"schema": OBJECT},
        }
    }
    form = json_body(OBJECT, media="application/x-www-form-urlencoded")
    made = document(
        {"/a": {"post": operation("both", requestBody=both)}, "/b": {"post": operation("form", requestBody=form)}}
    )
    operations = offered(made).operations

    assert (operations["both"].inputs.media, operations["both"].inputs.content_type) == (
        Media.JSON,
        "application/vnd.x+json",
    )
    assert operations["form"].inputs.media is Media.FORM


def test_a_media_type_that_no_header_can_carry_is_plain_json() -> None:
    body = json_body(OBJECT, media="application/x+json\r\nX-Evil: 1")
    made = document({"/a": {"post": operation("a", requestBody=body)}})
    assert offered(made).operations["a"].inputs.content_type == "application/json"


def test_a_body_of_no_kind_keeps_the_operation_out_unless_it_may_be_left_out() -> None:
    made = document(
        {
            "/a": {"post": operation("needed", requestBody={"content": {}, "required": True})},
            "/b": {"post": operation("optional", requestBody={"content": {}})},
        }
    )
    offer = offered(made)
    assert list(offer.operations) == ["optional"]
    assert offer.listing.faults == (
        "The operation POST /a is left out: it has to have a body, and the document does not say of which kind.",
    )


def test_headers_of_the_connection_and_those_that_the_operator_sets_are_no_arguments() -> None:
    names = [
        "Authorization",
        "Content-Type",
        "Accept",
        "Host",
        "Cookie",
        "Content-Length",
        "X-Key",
        "X-Mine",
        "bad name",
    ]
    made = document({"/x": {"get": operation("x", parameters=[parameter(name, "header") for name in names])}})
    auth = {"type": "api_key", "name": "x-key", "value": "secret-value"}

    assert list(tools_of(made, auth=auth, fields=False)["x"].input_schema["properties"]) == ["X-Mine"]


def test_a_key_in_the_query_is_the_operators_and_no_argument() -> None:
    made = document({"/x": {"get": operation("x", parameters=[parameter("token", required=True), parameter("q")])}})
    auth = {"type": "api_key", "place": "query", "name": "token", "value": "secret-value"}
    schema = tools_of(made, auth=auth, fields=False)["x"].input_schema
    assert list(schema["properties"]) == ["q"]
    assert "required" not in schema


def test_an_operation_with_a_parameter_that_openapi_does_not_know_is_left_out() -> None:
    for wrong in (
        {"name": "x", "in": "body"},
        {"in": "query"},
        {"name": "x", "in": []},
        {"name": ["x"], "in": "query"},
        parameter("x", style={}),
        parameter("x", style="matrix"),
        parameter("x", "header", style="form"),
    ):
        offer = offered(document({"/x": {"get": operation("x", parameters=[wrong])}}))
        assert offer.listing.tools == ()
        assert len(offer.listing.faults) == 1


def test_the_argument_for_fields_is_there_unless_switched_off_and_gives_way_to_the_services_own() -> None:
    made = document({"/x": {"get": operation("x", parameters=[parameter("fields")])}, "/y": {"get": operation("y")}})

    assert list(tools_of(made)["x"].input_schema["properties"]) == ["fields", "answer_fields"]
    assert tools_of(made)["y"].input_schema["properties"]["fields"]["type"] == "array"
    assert tools_of(made, fields=False)["y"].input_schema["properties"] == {}
    assert tools_of(made, select={"y": ["id"]})["y"].input_schema["properties"] == {}
