"""Ways into other libraries; none of them is imported before it is used.

* :meth:`sfumato.Sanitizer.column`: columns of pandas and polars frames.
* :func:`sfumato.sanitize.adapters.datasets.for_datasets`: a function for ``datasets.Dataset.map``.
* :class:`sfumato.sanitize.adapters.sklearn.SfumatoTransformer`: a step of a scikit-learn pipeline.
* :mod:`sfumato.sanitize.adapters.spacy`: the spaCy component ``sfumato``.
"""
