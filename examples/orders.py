# Sums the prices of orders: each line names an item of a catalogue.
from lxml import etree

items = "".join(f'<item id="i{n}" price="{n % 97}"/>' for n in range(2000))
catalogue = etree.fromstring(f"<items>{items}</items>")


def price(name):
    return int(catalogue.xpath("//item[@id=$name]/@price", name=name)[0])


orders = [f"i{n * 7919 % 2000}" for n in range(3000)]
print(sum(price(name) for name in orders))
