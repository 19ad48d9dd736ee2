"""Categories of named entities, and the labels that spaCy pipelines give them.

The twenty categories are those of the UeDP paper (Lai et al., *User-Entity Differential Privacy in Learning Natural
Language Models*, 2022): the eighteen of OntoNotes, which spaCy's English pipelines recognise, and two more that its
experiments use, CoNLL-2003's miscellaneous entities (MISC) and personally identifiable information (PII: persons and
places, and here also contact data where a pipeline marks it).

Pipelines for other languages, or trained for another purpose, use other and often fewer labels.  Where a pipeline has
no label of its own for a category, the coarser one that includes it is taken, so that more is marked rather than less.

>>> sorted(labels_of(EntityCategory.PERSON, {"PER", "LOC", "ORG", "MISC"}))
['PER']
>>> sorted(labels_of(EntityCategory.GPE, {"PER", "LOC", "ORG", "MISC"}))
['LOC']
>>> sorted(labels_of(EntityCategory.MONEY, {"PER", "LOC", "ORG", "MISC"}))
[]
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class EntityCategory(StrEnum):
    """What kind of thing a named entity is."""

    PERSON = "PERSON"
    NORP = "NORP"
    FAC = "FAC"
    ORG = "ORG"
    GPE = "GPE"
    LOC = "LOC"
    PRODUCT = "PRODUCT"
    EVENT = "EVENT"
    WORK_OF_ART = "WORK_OF_ART"
    LAW = "LAW"
    LANGUAGE = "LANGUAGE"
    DATE = "DATE"
    TIME = "TIME"
    PERCENT = "PERCENT"
    MONEY = "MONEY"
    QUANTITY = "QUANTITY"
    ORDINAL = "ORDINAL"
    CARDINAL = "CARDINAL"
    MISC = "MISC"
    PII = "PII"

    @property
    def meaning(self) -> str:
        """What belongs to the category, in plain words."""
        return _MEANINGS[self]


_MEANINGS: dict[EntityCategory, str] = {
    EntityCategory.PERSON: "people, fictional ones too",
    EntityCategory.NORP: "nationalities, religious and political groups",
    EntityCategory.FAC: "buildings, airports, roads, bridges",
    EntityCategory.ORG: "companies, agencies, institutions",
    EntityCategory.GPE: "countries, states, cities",
    EntityCategory.LOC: "other places: mountains, waters, regions",
    EntityCategory.PRODUCT: "things that are made: vehicles, foods, devices",
    EntityCategory.EVENT: "named wars, storms, sports events",
    EntityCategory.WORK_OF_ART: "titles of books, songs, films",
    EntityCategory.LAW: "named laws",
    EntityCategory.LANGUAGE: "named languages",
    EntityCategory.DATE: "dates and periods of a day or longer",
    EntityCategory.TIME: "times shorter than a day",
    EntityCategory.PERCENT: "percentages",
    EntityCategory.MONEY: "amounts of money with their unit",
    EntityCategory.QUANTITY: "measurements: weights, distances",
    EntityCategory.ORDINAL: "first, second, ...",
    EntityCategory.CARDINAL: "other numerals",
    EntityCategory.MISC: "named entities that are neither person, place nor organisation",
    EntityCategory.PII: "persons, places, and contact data where the pipeline marks it",
}

_OWN: dict[EntityCategory, frozenset[str]] = {
    category: frozenset({category.value, *others.split()})
    for category, others in {
        EntityCategory.PERSON: "PER PRS PS persName",
        EntityCategory.NORP: "NRP NAT_REL_POL",
        EntityCategory.FAC: "FACILITY",
        EntityCategory.ORG: "ORGANIZATION OG orgName GPE_ORG",
        EntityCategory.GPE: "GPE_LOC GPE_ORG placeName",
        EntityCategory.LOC: "LOCATION LC geogName",
        EntityCategory.PRODUCT: "PROD OBJ",
        EntityCategory.EVENT: "EVT EVN",
        EntityCategory.WORK_OF_ART: "WRK",
        EntityCategory.LAW: "",
        EntityCategory.LANGUAGE: "",
        EntityCategory.DATE: "DATE_TIME DATETIME PERIOD DT date",
        EntityCategory.TIME: "DATE_TIME DATETIME TI TME time",
        EntityCategory.PERCENT: "",
        EntityCategory.MONEY: "",
        EntityCategory.QUANTITY: "MSR QT",
        EntityCategory.ORDINAL: "",
        EntityCategory.CARDINAL: "",
        EntityCategory.MISC: "",
        EntityCategory.PII: "PHONE PHONE_NUMBER EMAIL EMAIL_ADDRESS ADDRESS SSN US_SSN CREDIT_CARD IBAN IBAN_CODE URL",
    }.items()
}

_OTHER_NAMES = (
    EntityCategory.NORP,
    EntityCategory.PRODUCT,
    EntityCategory.EVENT,
    EntityCategory.WORK_OF_ART,
    EntityCategory.LAW,
    EntityCategory.LANGUAGE,
)
_NUMERIC = (EntityCategory.PERCENT, EntityCategory.MONEY, EntityCategory.ORDINAL, EntityCategory.CARDINAL)
_PLACES = (EntityCategory.GPE, EntityCategory.LOC, EntityCategory.FAC)

_COARSER: dict[EntityCategory, frozenset[str]] = {
    **dict.fromkeys(_OTHER_NAMES, frozenset({"MISC"})),
    **dict.fromkeys((*_NUMERIC, EntityCategory.QUANTITY), frozenset({"NUMERIC_VALUE"})),
    **dict.fromkeys(_NUMERIC, frozenset({"NUMERIC_VALUE", "MSR", "QT"})),
    EntityCategory.GPE: _OWN[EntityCategory.LOC],
    EntityCategory.FAC: _OWN[EntityCategory.LOC],
    EntityCategory.LOC: _OWN[EntityCategory.GPE],
    EntityCategory.DATE: _OWN[EntityCategory.TIME],
    EntityCategory.TIME: _OWN[EntityCategory.DATE],
}


def labels_of(category: EntityCategory, known: Collection[str]) -> frozenset[str]:
    """Return the labels, of those a pipeline knows, that stand for a category; none if it cannot recognise it."""
    if category is EntityCategory.PII:
        persons = labels_of(EntityCategory.PERSON, known)
        places = frozenset[str]().union(*(labels_of(place, known) for place in _PLACES))
        return (persons | places | (_OWN[category] & set(known))) if persons else frozenset()
    own = _OWN[category] & set(known)
    if own:
        return own
    if category is EntityCategory.MISC:
        return frozenset[str]().union(*(_OWN[other] & set(known) for other in _OTHER_NAMES))
    return _COARSER.get(category, frozenset()) & set(known)
