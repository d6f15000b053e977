//! `#[boxed]`: the body of a public async function is compiled once, in the crate that it stands in.
//!
//! The compiler makes code of an async function where its future is polled, in every unit of every crate that does so. A store
//! with 340 of them would be compiled again by the engine, the server, the program and each of its test programs. A function that
//! returns a boxed future instead is code of its own crate; the box costs one allocation per call.
//!
//! On an `impl` block it changes the public async functions in it, on a function that one. What it returns is
//! `Pin<Box<dyn Future + Send>>`, so that the callers await it as before. Generic functions are left to their callers.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, FnArg, ImplItem, Item, Lifetime, Pat, ReceiverKind, ReturnType, Signature, TypeReference, Visibility,
    parse_macro_input, parse_quote,
};

#[proc_macro_attribute]
pub fn boxed(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as Item);
    match &mut item {
        Item::Impl(block) => {
            for item in &mut block.items {
                if let ImplItem::Fn(function) = item
                    && matches!(function.vis, Visibility::Public(_))
                {
                    rewrite(&mut function.sig, &mut function.block);
                }
            }
        }
        Item::Fn(function) => rewrite(&mut function.sig, &mut function.block),
        other => {
            return syn::Error::new_spanned(other, "`boxed` stands on a function or on an `impl` block")
                .into_compile_error()
                .into();
        }
    }
    quote!(#item).into()
}

fn rewrite(signature: &mut Signature, body: &mut Block) {
    if signature.asyncness.is_none() || signature.generics.type_params().next().is_some() {
        return;
    }
    signature.asyncness = None;
    let mut elided = Elided::default();
    for argument in &mut signature.inputs {
        match argument {
            FnArg::Receiver(receiver) => match &mut receiver.kind {
                ReceiverKind::Reference(_, lifetime, _) => {
                    let named = elided.name(lifetime.take());
                    *lifetime = Some(named.clone());
                    elided.of_self = Some(named);
                }
                ReceiverKind::Typed(_, receiver) => {
                    elided.visit_type_mut(receiver);
                    elided.of_self = elided.names.first().cloned();
                }
                _ => {}
            },
            FnArg::Typed(typed) => elided.visit_type_mut(&mut typed.ty),
        }
    }
    let output = match &mut signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => {
            // What is elided in the answer is borrowed from `self`, or from the only argument that lends something.
            elided.answers = elided.of_self.clone().or_else(|| elided.names.first().cloned());
            elided.visit_type_mut(output);
            output.clone()
        }
    };
    let declared: Vec<Lifetime> = signature.generics.lifetimes().map(|known| known.lifetime.clone()).collect();
    let Elided { names, .. } = elided;
    for name in &names {
        signature.generics.params.push(parse_quote!(#name));
    }
    signature.generics.params.push(parse_quote!('call));
    let bounds = signature.generics.make_where_clause();
    for name in names.iter().chain(&declared) {
        bounds.predicates.push(parse_quote!(#name: 'call));
    }
    signature.output = parse_quote!(
        -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = #output> + ::std::marker::Send + 'call>>
    );
    // The future owns all arguments, also those that are not used: a guard among them is dropped when the future is.
    let arguments = signature.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) => Some(&pattern.ident),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    let statements = &body.stmts;
    *body = parse_quote!({ ::std::boxed::Box::pin(async move { #(let _ = &#arguments;)* #(#statements)* }) });
}

/// Gives names to the lifetimes that a signature leaves out.
#[derive(Default)]
struct Elided {
    names: Vec<Lifetime>,
    of_self: Option<Lifetime>,
    /// Set for the type of the answer: what is left out there has this name.
    answers: Option<Lifetime>,
}

impl Elided {
    fn name(&mut self, lifetime: Option<Lifetime>) -> Lifetime {
        match lifetime {
            Some(lifetime) if lifetime.ident != "_" => lifetime,
            _ => self.answers.clone().unwrap_or_else(|| {
                let ident = format_ident!("lent{}", self.names.len());
                let lifetime = Lifetime::new(&format!("'{ident}"), ident.span());
                self.names.push(lifetime.clone());
                lifetime
            }),
        }
    }
}

impl VisitMut for Elided {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        let lifetime = reference.lifetime.take();
        reference.lifetime = Some(self.name(lifetime));
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        *lifetime = self.name(Some(lifetime.clone()));
    }

    /// Lifetimes within `Fn(&T)` and `fn(&T)` are the function's own.
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut syn::ParenthesizedGenericArguments) {}

    fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {}
}
