# As orders.py, with one look at each item.
from lxml import etree

items = "".join(f'<item id="i{n}" price="{n % 97}"/>' for n in range(2000))
catalogue = etree.fromstring(f"<items>{items}</items>")
prices = {item.get("id"): int(item.get("price")) for item in catalogue}

orders = [f"i{n * 7919 % 2000}" for n in range(3000)]
print(sum(prices[name] for name in orders))
