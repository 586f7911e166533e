import msgspec
import pytest

from jackfield.sources.openapi.document import Unreadable
from tests.sources.openapi.scene import document, json_body, offered, operation, parameter, tools_of

LIST = {"/things": {"get": operation("list_things")}}


@pytest.mark.parametrize("version", ["3.0.0", "3.0.3", "3.1.0", "3.1", "3.2.0"])
def test_documents_of_every_openapi_3_are_read(version: str) -> None:
    assert list(tools_of({**document(LIST), "openapi": version})) == ["list_things"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not an OpenAPI document: it is not an object."),
        (b"<html>", "is a web page or XML, which no OpenAPI document is. Check its url."),
        (b"a: [1, 2\n", "is neither JSON nor valid YAML: did not find expected ',' or ']' (line 2)."),
        (b"\x00\x01", "is neither JSON nor valid YAML: "),
        (b'{"openapi": "3.0.0",', "is not valid JSON: Input data was truncated."),
        (b"[]", "is not an OpenAPI document: it is not an object."),
        (b'{"swagger": "1.2", "paths": {}}', "is of Swagger 1.2; Swagger 2.0 and OpenAPI 3 are read."),
        (b'{"openapi": "4.0.0", "paths": {}}', "is not an OpenAPI 3 document: its 'openapi' is '4.0.0'."),
        (b'{"openapi": 3, "paths": {}}', "is not an OpenAPI 3 document: its 'openapi' is 'int'."),
        (b'{"paths": {}}', "is not an OpenAPI 3 document: its 'openapi' is 'missing'."),
        (b'{"openapi": "3.0.0", "paths": []}', "is not an OpenAPI document: its 'paths' is not an object."),
        (b'{"openapi": "3.0.0", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is nested too deep to be read."),
    ],
)
def test_what_is_no_document_is_a_sentence_about_the_whole(content: bytes, says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        offered(content)
    assert str(refused.value).startswith(says)


def test_a_document_without_operations_says_so() -> None:
    listing = offered(document()).listing
    assert listing.tools == ()
    assert listing.faults == ("The document has no operations.",)


def test_references_are_followed_to_path_items_parameters_bodies_and_schemas() -> None:
    components = {
        "pathItems": {"thing": {"post": operation("make", requestBody={"$ref": "#/components/requestBodies/Thing"})}},
        "requestBodies": {"Thing": json_body({"$ref": "#/components/schemas/Thing"})},
        "parameters": {"dry": {"$ref": "#/components/parameters/dry_run"}, "dry_run": parameter("dry_run")},
        "schemas": {"Thing": {"type": "object", "properties": {"a/b": {"type": "integer"}}}},
    }
    paths = {
        "/thing": {"$ref": "#/components/pathItems/thing"},
        "/other": {"get": operation("look", parameters=[{"$ref": "#/components/parameters/dry"}])},
        "/same": {
            "put": operation("same", requestBody=json_body({"$ref": "#/components/schemas/Thing/properties/a~1b"}))
        },
    }
    tools = tools_of(document(paths, components=components), fields=False)

    assert tools["make"].input_schema["properties"] == {"a_b": {"type": "integer"}}
    assert tools["look"].input_schema["properties"] == {"dry_run": {"type": "string"}}
    assert list(tools["same"].input_schema["$defs"].values()) == [{"type": "integer"}]


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (
            "https://elsewhere.example/s.json#/X",
            "it refers to 'https://elsewhere.example/s.json#/X', and nothing outside",
        ),
        ("other.json#/components/schemas/X", "it refers to 'other.json#/components/schemas/X', and nothing outside"),
        ("file:///etc/passwd", "it refers to 'file:///etc/passwd', and nothing outside the document is fetched"),
        ("#/components/schemas/Missing", "it refers to '#/components/schemas/Missing', which is not in the document"),
        (7, "it refers to 'int', and nothing outside the document is fetched"),
    ],
)
def test_an_operation_that_refers_to_what_is_not_in_the_document_is_left_out_and_the_others_stay(
    reference: object, says: str
) -> None:
    broken = {
        "/a": {"post": operation("by_schema", requestBody=json_body({"$ref": reference}))},
        "/b": {"get": operation("by_parameter", parameters=[{"$ref": reference}])},
        "/c": {"$ref": reference},
    }
    listing = offered(document(LIST | broken)).listing

    assert [tool.name for tool in listing.tools] == ["list_things"]
    assert [fault.partition(says)[0] for fault in listing.faults] == [
        "2 operations are left out. POST /a: ",
        "The path '/c' is left out: ",
    ]
    assert all(says in fault for fault in listing.faults)


def test_references_that_lead_in_a_circle_are_one_operations_fault_alone() -> None:
    circle = {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}}
    paths = LIST | {"/x": {"get": operation("x", parameters=[{"$ref": "#/components/parameters/a"}])}}
    listing = offered(document(paths, components={"parameters": circle})).listing

    assert [tool.name for tool in listing.tools] == ["list_things"]
    assert listing.faults == ("The operation GET /x is left out: the references of its parameter lead in a circle.",)


def test_foreign_text_in_a_fault_is_short_and_on_one_line() -> None:
    paths = {"/x\n\x1b[31m" + "y" * 500: {"get": operation("x", parameters=["no object"])}}
    (fault,) = offered(document(paths)).listing.faults
    assert fault.isprintable()
    assert len(fault) < 250


def test_the_document_is_read_without_a_byte_order_mark() -> None:
    assert list(tools_of(b"\xef\xbb\xbf" + msgspec.json.encode(document(LIST)))) == ["list_things"]
