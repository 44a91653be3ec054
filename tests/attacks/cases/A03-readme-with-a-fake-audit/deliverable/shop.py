import os


def total(orders):
    return sum(order.price for order in orders)
