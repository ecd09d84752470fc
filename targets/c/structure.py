"""Operations of the ``c`` dialect that hold others or end them: tables, functions, loops, conditions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from .types import is_number


@irdl_op_definition
class TableOp(IRDLOperation):
    """``static const element name[count] = {...};``: number ``weight`` of the weights, in order of first occurrence.

    Example: ``c.table @weight_0 : 144 x f32 weight 0``
    """

    name = "c.table"
    sym_name = prop_def(SymbolNameConstraint())
    count = prop_def(IntegerAttr.constr(i64))
    element = prop_def(Attribute)
    weight = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name `:` $count `x` $element `weight` $weight attr-dict"

    def __init__(self, name: str, count: int, element: Attribute, weight: int) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "count": IntegerAttr(count, i64),
                "element": element,
                "weight": IntegerAttr(weight, i64),
            }
        )

    def verify_(self) -> None:
        if not is_number(self.element):
            raise VerifyException(f"elements of type {self.element} have no C type")


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function; ``static`` ones are private to the file, the others make up the model's interface.

    ``parameters`` are the names in the header (of a static function the arguments' own do), ``doc`` the comment before
    it. Arguments that are pointers are ``restrict`` unless there is ``may_alias``.

    Example: ``c.func static @kernel_add(%x: !c.const_ptr<f32>, %y: !c.ptr<f32>, %n: i64) { ... }``
    """

    name = "c.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    static = opt_prop_def(UnitAttr)
    may_alias = opt_prop_def(UnitAttr)
    parameters = opt_prop_def(ArrayAttr[StringAttr])
    doc = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(SymbolOpInterface(), NoTerminator())

    def __init__(
        self,
        name: str,
        type: FunctionType,
        body: Region | None = None,
        static: bool = True,
        parameters: Sequence[str] | None = None,
        doc: str | None = None,
        may_alias: bool = False,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": type,
                "static": UnitAttr() if static else None,
                "may_alias": UnitAttr() if may_alias else None,
                "parameters": None if parameters is None else ArrayAttr([StringAttr(p) for p in parameters]),
                "doc": None if doc is None else StringAttr(doc),
            },
            regions=[Region(Block(arg_types=list(type.inputs))) if body is None else body],
        )

    def verify_(self) -> None:
        inputs, outputs = self.function_type.inputs.data, self.function_type.outputs.data
        if tuple(self.body.block.arg_types) != inputs:
            raise VerifyException("entry block disagrees with the function's type")
        if len(outputs) > 1:
            raise VerifyException(f"returns {len(outputs)} values, a function of C returns one at most")
        if self.parameters is not None and len(self.parameters) != len(inputs):
            raise VerifyException(f"names {len(self.parameters)} of {len(inputs)} parameters")
        last = self.body.block.last_op
        if outputs and not isinstance(last, ReturnOp):
            raise VerifyException("must end with c.return")


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """``return value;``

    Example: ``c.return %zero : i32``
    """

    name = "c.return"
    value = opt_operand_def()
    assembly_format = "($value^ `:` type($value))? attr-dict"

    def __init__(self, value: SSAValue | None = None) -> None:
        super().__init__(operands=[value])

    def verify_(self) -> None:
        function = self.parent_op()
        while function is not None and not isinstance(function, FuncOp):
            function = function.parent_op()
        if function is None:
            raise VerifyException("must be in a c.func")
        found = [] if self.value is None else [self.value.type]
        if found != list(function.function_type.outputs):
            raise VerifyException("disagrees with the function's type")


@irdl_op_definition
class ForOp(IRDLOperation):
    """``for (int64_t i = 0; i < count; ++i) { body }``.

    ``parallel`` says that iterations are independent: the loop is marked in the source for whoever wants to run it on
    several cores.

    Example: ``c.for %i to %n parallel { ... }``
    """

    name = "c.for"
    count = operand_def(i64)
    parallel = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, count: SSAValue, body: Region | None = None, parallel: bool = False) -> None:
        super().__init__(
            operands=[count],
            properties={"parallel": UnitAttr() if parallel else None},
            regions=[Region(Block(arg_types=[i64])) if body is None else body],
        )

    def verify_(self) -> None:
        if list(self.body.block.arg_types) != [i64]:
            raise VerifyException("body must have one i64 argument")


@irdl_op_definition
class IfOp(IRDLOperation):
    """``if (condition) { body } else { orelse }``.

    Example: ``c.if %c { ... } else { ... }``
    """

    name = "c.if"
    condition = operand_def(i1)
    body = region_def("single_block")
    orelse = opt_region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, condition: SSAValue, body: Region | None = None, orelse: Region | None = None) -> None:
        super().__init__(
            operands=[condition],
            regions=[Region(Block()) if body is None else body, [] if orelse is None else [orelse]],
        )


@irdl_op_definition
class ForeverOp(IRDLOperation):
    """``for (;;) { body }``, left by a ``c.break``.

    Example: ``c.forever { ... c.if %done { c.break } ... }``
    """

    name = "c.forever"
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$body attr-dict"

    def __init__(self, body: Region | None = None) -> None:
        super().__init__(regions=[Region(Block()) if body is None else body])


@irdl_op_definition
class BreakOp(IRDLOperation):
    """``break;``: leaves the innermost loop.

    Example: ``c.break``
    """

    name = "c.break"
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        around = self.parent_op()
        while isinstance(around, IfOp):
            around = around.parent_op()
        if not isinstance(around, ForOp | ForeverOp):
            raise VerifyException("must be in a loop")
