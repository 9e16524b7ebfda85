"""What tells a DataFrame from others: its plan, the files it reads, whose data it holds.

The same for the same frame, whenever it is asked; for a frame that is made again in the same way
from the same files, tables or frames; and, if it is made from files or tables alone, in another
session. Data that are in no file (``createDataFrame``, an RDD, a checkpoint) are known by where the
session holds them: two frames with equal rows are two. Nothing here runs a job.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any
from uuid import uuid4

_ID = re.compile(r'"(?:id|cteId)":(\d+)(,"jvmId":"[^"]*")?')
_PASSING = re.compile(  # counters, clocks and addresses, which are others in another session
    r'(?<="createTime":)\d+|(?<="lastAccessTime":)-?\d+|(?<="value":"\[B@)[0-9a-f]+'
    r'|(?<=NamedLambdaVariable","num-children":0,"name":")\w+|_pyspark_[0-9a-f]{32}'
)
# The same in text, where literals are not quoted: what stands alone, as '#12' may, is no counter.
_ID_IN_TEXT = re.compile(r"(?:\b[a-z]_\d+)?(?<=[\w)\]`])#(\d+)(L?)")
_PASSING_IN_TEXT = re.compile(
    r"(?<=\w)@[0-9a-f]{5,8}\b|(?<=CTERelationDef )\d+|(?<=[a-z]Ref )\d+|_pyspark_[0-9a-f]{32}"
)
_FILE = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);")
_MOST_FIELDS = "spark.sql.debug.maxToStringFields"
_LOCK = Lock()  # for a setting that all threads share
_SHORT, _MOST_NESTED = 20_000, 8  # characters of a plan; parentheses
_LOCAL_IN_TEXT = re.compile(r"(?:LocalRelation|LogicalRDD) .*")
_TOLD = ("Range", "OneRowRelation", "CTERelationRef", "HiveTableRelation")  # all in the plan


def frame_text(df: Any) -> list[str]:
    """Texts of a frame; if it cannot be told, one that no other frame has."""
    on_connect = type(df).__module__.startswith("pyspark.sql.connect")
    try:
        return list(_connect_texts(df) if on_connect else _classic_texts(df))
    except Exception as error:  # of an unknown relation, or another version of Spark
        warnings.warn(
            f"the plan of this DataFrame cannot be told from others ({type(error).__name__}), so "
            "the same job gives other bytes each time: give it a stream=… of its own",
            RuntimeWarning,
            stacklevel=2,
        )
        return [str(uuid4())]


# --- classic: the analysed plan, in the JVM -----------------------------------------------------


def _classic_texts(df: Any) -> Iterator[str]:
    plan = df._jdf.queryExecution().analyzed()
    with _LOCK, _all_fields(df.sparkSession.getActiveSession() or df.sparkSession):
        text = plan.toString()
    yield _without_counters(text)
    if _is_short_as_json(text):
        # Strings in JSON are quoted, so that a literal '#12' is not taken for a counter.
        yield _PASSING.sub("", _ID.sub(_renumbered(), plan.toJSON()))
    plans = [plan, *_listed(plan.subqueriesAll())]
    for each in plans:
        for leaf in _listed(each.collectLeaves()):
            yield _leaf_text(df.sparkSession, leaf)
    yield from _functions(df.sparkSession, plans)


@contextmanager
def _all_fields(session: Any) -> Iterator[None]:
    """Have plans print all fields, not the first 25: jobs may differ in the others."""
    was_set = _MOST_FIELDS in session.conf.getAll
    before = session.conf.get(_MOST_FIELDS)
    session.conf.set(_MOST_FIELDS, str(2**30))
    try:
        yield
    finally:
        if was_set:
            session.conf.set(_MOST_FIELDS, before)
        else:
            session.conf.unset(_MOST_FIELDS)


def _is_short_as_json(text: str) -> bool:
    """Whether JSON of a plan is not much longer than its text.

    It has some children twice, so that it doubles with every CASE or function within another.
    """
    depth = deepest = 0
    if len(text) > _SHORT or text.count("CASE WHEN") > _MOST_NESTED:
        return False
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest <= _MOST_NESTED


def _renumbered() -> Callable[[re.Match[str]], str]:
    """Ids by the order in which they first occur."""
    numbers: dict[tuple[str, bool], int] = {}

    def renumber(found: re.Match[str]) -> str:
        return str(numbers.setdefault((found[1], not found[2]), len(numbers)))

    return renumber


def _without_counters(text: str) -> str:
    return _PASSING_IN_TEXT.sub("", _ID_IN_TEXT.sub(_renumbered(), text))


def _leaf_text(spark: Any, leaf: Any) -> str:
    kind = leaf.getClass().getSimpleName()
    if kind in _TOLD:
        return ""
    holder = leaf
    if kind == "LogicalRelation":
        holder = leaf.relation()
        if holder.getClass().getSimpleName() == "HadoopFsRelation":
            options = f"{holder.fileFormat().getClass().getName()} {holder.options().toString()}"
            return f"{_files_text(holder.location())} {options}"
        if leaf.catalogTable().isDefined():
            return ""  # the plan has its name
    elif kind == "DataSourceV2Relation":
        holder = leaf.table()
        if leaf.identifier().isDefined():
            version = ""
            with suppress(Exception):  # not all tables have one
                version = str(holder.version())
            return f"{holder.name()} {version}"
        with suppress(Exception):  # not all have files
            return _files_text(holder.fileIndex())
    elif kind == "LocalRelation":
        holder = leaf.data()
    elif kind in ("LogicalRDD", "ExternalRDD"):
        return f"{spark.sparkContext.applicationId} RDD {leaf.rdd().id()}"
    address = spark._jvm.java.lang.System.identityHashCode(holder)
    return f"{spark.sparkContext.applicationId} {kind} {address}"


def _files_text(index: Any) -> str:
    roots = index.rootPaths().mkString(",")
    with suppress(Exception):
        files = index.allFiles()
        told = _FILE.findall(files.mkString())
        if len(told) == files.size():  # a file system of another kind may print them otherwise
            return f"{roots} {sorted(told)}"
    with suppress(Exception):  # partitions of a catalog's table
        return f"{roots} {sorted(index.inputFiles())} {index.sizeInBytes()}"
    # One that is listed when it is read; some have a version.
    return f"{roots} {_without_counters(index.toString())}"


def _functions(spark: Any, plans: list[Any]) -> Iterator[str]:
    """Hashes of Python functions as they travel: the plan has their names alone."""
    application = spark.sparkContext.applicationId
    patterns = spark._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    kinds = patterns.PYTHON_UDF(), patterns.GENERATE()  # table functions are generators
    nodes = [(plan, True) for plan in plans]
    while nodes:
        node, is_plan = nodes.pop()
        kind = node.getClass().getSimpleName()
        if not is_plan and kind in ("PythonUDF", "PythonUDAF", "PythonUDTF"):
            yield str(node.func().command().hashCode())
            if node.func().broadcastVars().size():  # of which the command has the ids alone
                yield application
        if kind == "Generate":
            nodes.append((node.generator(), False))
        if any(map(node.containsPattern, kinds)):
            nodes += [(child, is_plan) for child in _listed(node.children())]
            if is_plan:
                nodes += [(expression, False) for expression in _listed(node.expressions())]


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


# --- Connect: the message that is sent, and what only the server knows --------------------------


def _connect_texts(df: Any) -> Iterator[str]:
    session = df.sparkSession
    relation = type(df._plan.plan(session.client))()
    relation.CopyFrom(df._plan.plan(session.client))
    kinds, held = _normalise(relation)
    yield relation.SerializeToString(deterministic=True).hex()
    if held:
        yield f"{session.session_id} {held}"
    if kinds & {"named_table", "sql"}:  # the message has names of views, the server their plans
        with _LOCK, _all_fields(session):
            text = df._explain_string(mode="extended")
        text = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
        yield _without_counters(text)
        if not held:  # then data have ids of a view, and not of this request
            yield str(_LOCAL_IN_TEXT.findall(text))
    if kinds & {"read", "sql"}:
        with suppress(Exception):  # the paths that were given are in the message
            yield str(sorted(df.inputFiles()))  # none once the frame is cached


def _normalise(relation: Any) -> tuple[set[str], list[int]]:
    """Take out of a message what differs from call to call.

    Returns the kinds of its relations, and the ids of those that hold data.
    """
    numbers: dict[int | str, int] = {}
    kinds, held = set(), []
    messages = [relation]
    while messages:
        message = messages.pop()
        kind = message.DESCRIPTOR.name
        if kind == "Relation":
            which = message.WhichOneof("rel_type") or ""
            kinds.add(which)
            plan_id = message.common.plan_id
            if which.endswith("local_relation"):
                held.append(plan_id)
            message.ClearField("common")
            message.common.plan_id = numbers.setdefault(plan_id, len(numbers))
        elif kind == "NamedTable":
            kinds.add("named_table")
        elif kind == "Expression":
            message.ClearField("common")  # the line of the program that it comes from
        elif kind == "UnresolvedNamedLambdaVariable":
            names = [str(numbers.setdefault(n, len(numbers))) for n in message.name_parts]
            message.name_parts[:] = names
        for field, value in message.ListFields():
            if field.name == "plan_id" and kind != "RelationCommon":  # of a column's frame
                message.plan_id = numbers.setdefault(value, len(numbers))
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                messages += [value] if hasattr(value, "DESCRIPTOR") else value
    return kinds, held
