def price(item: str, number: int = 1) -> dict:
    """What so many of an item cost."""
    return {"item": item, "cents": number * (100 + len(item))}
