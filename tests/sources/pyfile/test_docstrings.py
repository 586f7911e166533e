from jackfield.sources.pyfile.docstrings import Docs, split_docstring


def test_a_plain_docstring_is_the_description_without_its_indentation() -> None:
    docs = split_docstring("""Find hotels.

        Only those with
          a view.
        """)

    assert docs == Docs(description="Find hotels.\n\nOnly those with\n  a view.")


def test_no_docstring_says_nothing() -> None:
    assert split_docstring(None) == Docs()


def test_google_sections_describe_the_parameters_and_leave_the_description() -> None:
    docs = split_docstring("""Find hotels.

    Args:
        city (str, optional): Where: a city,
            or a region.

        nights: How many.
        **more: Anything else.

    Returns:
        A list.
    """)

    assert docs.description == "Find hotels.\n\nReturns:\n    A list."
    assert docs.parameters == {"city": "Where: a city, or a region.", "nights": "How many.", "more": "Anything else."}


def test_numpy_sections_describe_the_parameters_and_leave_the_description() -> None:
    docs = split_docstring("""Find hotels.

    Parameters
    ----------
    city : str
        Where to look,
        a city.
    low, high : float, optional
        The prices.

    Returns
    -------
    list
        Hotels.
    """)

    assert docs.description == "Find hotels.\n\nReturns\n-------\nlist\n    Hotels."
    assert docs.parameters == {"city": "Where to look, a city.", "low": "The prices.", "high": "The prices."}


def test_sphinx_fields_describe_the_parameters_and_leave_the_description() -> None:
    docs = split_docstring("""Find hotels.

    :param city: Where to look,
        a city.
    :param int nights: How many.
    :type city: str
    :returns: Hotels.
    """)

    assert docs.description == "Find hotels.\n\n:returns: Hotels."
    assert docs.parameters == {"city": "Where to look, a city.", "nights": "How many."}


def test_a_section_without_entries_stays_in_the_description() -> None:
    text = "Parse a command line.\n\nArgs:\n    see the manual\n"

    assert split_docstring(text) == Docs(description="Parse a command line.\n\nArgs:\n    see the manual")


def test_a_word_that_only_looks_like_a_heading_stays() -> None:
    text = "Parameters\nare nice."

    assert split_docstring(text) == Docs(description=text)
